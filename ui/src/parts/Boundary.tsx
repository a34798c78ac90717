import { Alert, Button } from "@chakra-ui/react";
import { Component, type ReactNode } from "react";

interface BoundaryState {
  error: Error | null;
}

/** Keeps an error of Interlock's views from taking Airflow's page away. */
export class Boundary extends Component<{ children: ReactNode }, BoundaryState> {
  override state: BoundaryState = { error: null };

  static getDerivedStateFromError(error: Error): BoundaryState {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <Alert.Root status="error" role="alert">
        <Alert.Indicator aria-hidden />
        <Alert.Content>
          <Alert.Title>Interlock cannot show this</Alert.Title>
          <Alert.Description>
            {String(error.message)}. Reload the page; if it happens again, the browser&apos;s console has
            more, and `airflow interlock explain` answers in a terminal.
          </Alert.Description>
        </Alert.Content>
        <Button size="sm" variant="outline" onClick={() => this.setState({ error: null })}>
          Try again
        </Button>
      </Alert.Root>
    );
  }
}
